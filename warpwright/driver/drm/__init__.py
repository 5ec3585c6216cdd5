"""Drop-in ``libdrm.so.2`` and ``libdrm_nouveau.so.2``: how the system's Mesa finds a simulated GeForce 8800 or Radeon and gives it work.

``exports.py`` lists their functions, ``structures.py`` what they share with their callers, ``nodes.py`` answers the loader's questions,
``objects.py``, ``libdrm_buffers.py`` and ``pushbuffers.py`` those of Mesa's driver, and ``attach.py`` places the libraries.  The device itself is
``warpwright.graphics.device``.  ``radeon/`` answers Mesa's driver for AMD's chips.
"""
