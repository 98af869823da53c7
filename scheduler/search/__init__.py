"""The decisions of a sweep: which parameters its members have, which members go on, and what work is still expected."""
