"""Texture units of clusters."""

from __future__ import annotations

from warpwright.native.units import Unit
from warpwright.timing.state.header.declarations import area, derived, from_chip


class TextureUnitWords(Unit):
    """The clusters' texture units and their caches (``timing/texture_unit.py``)."""

    texture_units = area("texture_units", "the clusters' texture units (TextureUnit), each followed by its cache")
    texture_unit_words = derived(lambda z: z.texture_unit_words, "words", "of a unit with its cache")
    texture_ways = from_chip("texture.texture_unit_l1_ways", "lines", "of a set of the first cache")
    texture_sets = derived(lambda z: z.texture_sets, "sets", "of the first cache")
    texture_l2 = area("texture_l2", "the second cache's part of each slice")
    texture_l2_ways = from_chip("texture.texture_unit_l2_ways", "lines", "of a set of the second cache")
    texture_l2_sets = derived(lambda z: z.texture_l2_sets, "sets", "of a slice's part of it")
    texture_line_shift = derived(
        lambda z: z.texture_line_shift, "bits", "of a texture line's number within a line of memory"
    )
    texture_quad_interval = derived(lambda z: z.texture_quad_interval, "1/256 cycle", "of a cycle of the texture unit")
    texture_latency = derived(
        lambda z: max(z.chip.texture.texture_unit_hit_latency_cycles - z.chip.mio.mio_latency_cycles, 0),
        "cycle",
        "of the unit where the first cache has all, from the memory queue on",
    )
    texture_l2_latency = derived(
        lambda z: max(z.chip.texture.texture_unit_l2_latency_cycles - z.chip.mio.mio_latency_cycles, 0),
        "cycle",
        "the same where the second one has",
    )
