"""Coherence with the host over NVLink."""

from __future__ import annotations

from warpwright.native.units import Unit, word


class CoherentHostWords(Unit):
    """Translations of the host's pages, and its caches' lines of the device's memory (``timing/coherent_host.py``)."""

    translations = word("pages", "of the host that the device keeps translations of; 0: it asks for none")
    translation_table = word("host address", "of them, TR_WORDS words each")
    translation_shift = word("bits", "of a line's number within such a page")
    translation_group = word("pages", "that one answer translates")
    translation_latency = word("cycle", "until the host answers a request for a translation")
    translation_requests = word("requests", "for translations")
    translation_waits = word("requests", "of SMs that waited for one")
    probe_sets = word("sets", "of the probe filter; 0: the host caches nothing of the device's memory")
    probe_ways = word("lines", "of a set")
    probe_table = word("host address", "of the filter's lines, plus one each; 0: free")
    probe_latency = word("cycle", "until the host has given a line back")
    probe_checks = word("requests", "that were looked up in the filter")
    probes = word("requests", "whose lines the host had")
