"""Draws in simulated time: replays the work of the functional pipeline on the stages of the seed's Figure 1.

The functional stages (``warpwright/graphics``) report their work to a watch (``capture.py``): vertices, primitives, tiles, quads, traffic. Fixed-function
stages then process it at their rates (``stages.py``), the SM controllers start its warps on the SMs of the timing model (``sm_controllers.py``,
``pipeline_machine.py``), and ``frame.py`` reports the time of each draw on each stage. Images do not depend on any of this.
"""
