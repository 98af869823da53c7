"""HiveD's own program, one pod after the other, over the cells of the admission `hived`."""
