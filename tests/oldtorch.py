"""Environment that torchrun of PyTorch before 2.0 needs under Python 3.11."""

# It cannot say there that nothing is redirected: iterating over its flags leaves 0 out. So it is told to redirect the
# output of a rank that does not exist. And it looks at its workers every 5 s only.
OLD_TORCH = {"PET_REDIRECTS": "9:1", "PET_TEE": "9:1", "PET_MONITOR_INTERVAL": "0.2", "OMP_NUM_THREADS": "1"}
