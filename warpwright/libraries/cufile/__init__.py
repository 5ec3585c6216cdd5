"""cuFile: reads files into device memory and writes device memory to files."""
