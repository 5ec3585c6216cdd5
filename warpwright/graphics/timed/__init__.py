"""Draws in simulated time: what the functional pipeline did, as work for the stages of the seed's Figure 1.

The functional stages (``warpwright/graphics``) leave what they did to a watch (``capture.py``): vertices, primitives, tiles, quads, traffic.
Fixed-function stages then pass it on at their rates (``stages.py``), the SM controllers start its warps on the SMs of the timing model
(``sm_controllers.py``, ``pipeline_machine.py``), and ``frame.py`` reports the time of each draw on each stage.  Images never depend on any of it.
"""
