"""The machine around one kernel: sequences that find what earlier kernels left, kernels of two streams, events and graphs.

``kernels.cu`` holds the kernels, ``sequences.py`` launches that follow each other, ``streams.py`` what runs at the same time.
Each script uses only the driver, so that it runs on a card and, under ``warpwright run``, on the model.
"""
