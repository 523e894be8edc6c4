"""Metrics in words, in the order in which they are shown."""

from __future__ import annotations

SHOWN = (
    ("accuracy_percent", "train accuracy %"),
    ("test_accuracy_percent", "test accuracy %"),
    ("disagreements", "disagreements"),
    ("precision_loss", "precision loss"),
    ("mean_absolute_error", "mean absolute error"),
    ("flash_bytes", "flash bytes"),
    ("ram_bytes", "RAM bytes"),
    ("demoted", "8-bit variables"),
    ("cycles", "cycles, predicted"),
    ("latency_ms", "ms an inference, predicted"),
    ("device_cycles", "cycles, measured"),
    ("device_approximate_cycles", "cycles, approximate"),
    ("device_latency_ms", "ms an inference, measured"),
    ("device_approximate_latency_ms", "ms an inference, approximate"),
    ("device_flash_bytes", "flash bytes of the whole program"),
    ("device_ram_bytes", "RAM bytes with sample and stack"),
    ("peak_bytes", "peak bytes"),
    ("gap_percent", "% above the largest live sum"),
    ("cost", "cost in bytes of peak"),
    ("bytes_migrated", "bytes migrated"),
    ("ticks_per_image", "ticks per image"),
    ("latency_ticks", "latency, ticks"),
    ("cores", "cores"),
    ("sram_bytes", "SRAM bytes"),
    ("core_sram_bytes", "SRAM bytes of the fullest core"),
    ("compute_ticks", "ticks of the busiest core"),
    ("promised_ticks", "ticks of the busiest core or link"),
    ("longest_route_links", "links of the longest route"),
    ("instructions", "instructions"),
    ("bus_transfers", "bus transfers"),
    ("registers", "registers"),
    ("rmse_grey_levels", "RMSE on photographs, grey levels"),
    ("ssim", "SSIM on photographs"),
)


def metric_label(metric: str) -> str:
    """A metric in words, with its unit."""
    return dict(SHOWN).get(metric, metric.replace("_", " "))
