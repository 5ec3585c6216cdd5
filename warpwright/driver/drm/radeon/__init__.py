"""The ``radeon`` kernel driver's calls, as Mesa's ``r600`` driver makes them for Cypress and Cayman.

``ioctls.py`` answers them, ``buffer_objects.py`` has the memory that Mesa maps, ``command_processor.py`` executes command streams, of which
``packets.py`` has the words, ``dma_ring.py`` those of the copy engine, and ``dispatches.py`` launches compute programs.  Draws are refused: the
graphics pipeline of these chips is not modelled.
"""
