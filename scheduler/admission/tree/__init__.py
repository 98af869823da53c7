"""Virtual clusters lend what they do not use along the tree of tenants, and reclaim it when they need it."""

from scheduler.admission.tree.admission import ShareTree

PLUGIN = ShareTree
