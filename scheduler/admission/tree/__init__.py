"""Virtual clusters lend what they do not use along the tree of tenants, and reclaim it when they need it."""

from scheduler.admission.tree.admission import SHARE_EXCEEDED, ShareTree

PLUGIN = ShareTree

__all__ = ["PLUGIN", "SHARE_EXCEEDED", "ShareTree"]
