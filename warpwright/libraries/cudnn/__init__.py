"""cuDNN: convolutions by the graph API and by the functions of earlier versions, batch normalisation."""
