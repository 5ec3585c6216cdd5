"""Models in plain PyTorch that run on a simulated device and are compared with the CPU's results."""
