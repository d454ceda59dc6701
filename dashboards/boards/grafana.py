"""Our rows written as Grafana wants them, with the foundation SDK.

Rules:
- Everything that Grafana would otherwise choose at random or by time (ids, places) is
  set here, so that the same rows give the same file.
"""

from dashboards.boards.values import Panel, Row
from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    timeseries,
)
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models

BOARD_COLUMNS = 24
HEIGHTS = {"number": 4, "lines": 8, "areas": 8, "bars": 8}
DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
AnyPanel = timeseries.Panel | stat.Panel | bargauge.Panel


def build_board(rows: tuple[Row, ...]) -> models.Dashboard:
    """Return the board, panels numbered and placed in reading order."""
    board = (
        dashboard.Dashboard("deuz-sidecar")
        .uid("deuz-sidecar")
        .description(
            "What the prompt cache does, what context is added, at which cost."
        )
        .tags(["deuz", "llm"])
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .readonly()
    )
    for variable in _build_variables():
        board.with_variable(variable)
    number = top = 0
    for row in rows:
        number += 1
        place = models.GridPos(h=1, w=BOARD_COLUMNS, x=0, y=top)
        board.with_row(dashboard.Row(row.question).id(number).grid_pos(place))
        top += 1
        for panel, place in _place(row.panels, top):
            number += 1
            board.with_panel(_build_panel(panel).id(number).grid_pos(place))
            top = max(top, place.y + place.h)
    return board.build()


def _build_variables() -> tuple[
    dashboard.DatasourceVariable | dashboard.QueryVariable, ...
]:
    return (
        dashboard.DatasourceVariable("datasource")
        .label("Data source")
        .type("prometheus"),
        _build_label_variable("route", "deuz_requests_total", "Route"),
        _build_label_variable("model", "deuz_tokens_total", "Model"),
    )


def _build_label_variable(
    name: str, metric: str, label: str
) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(f"label_values({metric}, {name})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
    )


def _place(panels: tuple[Panel, ...], top: int) -> list[tuple[Panel, models.GridPos]]:
    placed = []
    left, row_height = 0, 0
    for panel in panels:
        height = HEIGHTS[panel.kind]
        if left + panel.width > BOARD_COLUMNS:
            top, left, row_height = top + row_height, 0, 0
        place = models.GridPos(h=height, w=panel.width, x=left, y=top)
        placed.append((panel, place))
        left += panel.width
        row_height = max(row_height, height)
    return placed


def _build_panel(panel: Panel) -> AnyPanel:
    built = _begin_panel(panel)
    is_total = panel.kind in {"number", "bars"}
    for letter, query in zip("ABCDEF", panel.queries, strict=False):
        target = (
            prometheus.Dataquery()
            .expr(query.expr)
            .legend_format(query.legend or "__auto")
            .ref_id(letter)
            .datasource(DATASOURCE)
        )
        built.with_target(target.instant() if is_total else target.range())
    return (
        built.title(panel.title)
        .description(panel.answers)
        .unit(panel.unit)
        .datasource(DATASOURCE)
    )


def _begin_panel(panel: Panel) -> AnyPanel:
    match panel.kind:
        case "number":
            return _begin_number(panel)
        case "bars":
            # Sorted bars of named totals: a long cause stays readable.
            return (
                bargauge.Panel()
                .orientation(common_models.VizOrientation.HORIZONTAL)
                .display_mode(common_models.BarGaugeDisplayMode.BASIC)
                .name_placement(common_models.BarGaugeNamePlacement.TOP)
                .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
                .thresholds(_steps(None))
                .min(0)
            )
        case "areas":
            return (
                _begin_lines()
                .fill_opacity(30)
                .stacking(
                    common.StackingConfig()
                    .mode(common_models.StackingMode.NORMAL)
                    .group("A")
                )
            )
        case "lines":
            return _begin_lines()


def _begin_number(panel: Panel) -> stat.Panel:
    return (
        stat.Panel()
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .color_mode(common_models.BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_steps(panel.bad_from))
    )


def _begin_lines() -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .display_mode(common_models.LegendDisplayMode.LIST)
        .placement(common_models.LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
    )
    tooltip = common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI)
    return (
        timeseries.Panel()
        .legend(legend)
        .tooltip(tooltip)
        .show_points(common_models.VisibilityMode.NEVER)
        .min(0)
    )


def _steps(bad_from: float | None) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=None, color="green" if bad_from else "blue")]
    if bad_from is not None:
        steps.append(models.Threshold(value=bad_from, color="red"))
    return (
        dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
    )
