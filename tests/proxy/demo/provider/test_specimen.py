from typing import Any

import pytest

from deuz_proxy.demo.provider.specimen import make_arguments, make_specimen


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": 4}, 4),
        ({"enum": ["b", "a"]}, "b"),
        ({"type": ["null", "integer"], "minimum": 3}, 3),
        ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, True),
        ({"type": "ARRAY", "items": {"type": "NUMBER"}, "minItems": 2}, [1, 1]),
        ({"type": "null"}, None),
        ({"type": "string", "default": "d"}, "d"),
    ],
)
def test_a_value_fits_its_schema(schema: dict[str, Any], value: object) -> None:
    assert make_specimen(schema) == value


def test_only_required_members_are_filled_in() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["city"],
    }

    assert make_arguments(schema) == {"city": "example city"}


def test_references_are_followed_and_recursion_ends() -> None:
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"next": {"$ref": "#/$defs/node"}},
                "required": ["next"],
            }
        },
    }

    value = make_specimen(schema)

    assert isinstance(value["next"], dict)


def test_a_tool_without_schema_gets_no_arguments() -> None:
    assert make_arguments({}) == {}
