"""The SDK's exporter of spans over HTTP, with our encoder in the place of its own.

Rules:
- Sending, trying again, compression, headers and certificates stay the SDK's business.
- Its client is not public: where a later SDK has none of that name, the SDK encodes.
"""

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from deuz_proxy.sinks.otlp_bytes import encode_spans


class LeanSpanExporter(OTLPSpanExporter):
    """Exports spans that were encoded by `otlp_bytes`."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send the spans; blocks until they are through, or given up."""
        client = getattr(self, "_client", None)
        if client is None:
            return super().export(spans)
        is_through = client.export(encode_spans(spans)).success
        return SpanExportResult.SUCCESS if is_through else SpanExportResult.FAILURE
