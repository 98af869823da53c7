"""The disks that jobs fill: how much is left, who takes it, and whom that ends."""
