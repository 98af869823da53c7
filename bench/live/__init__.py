"""The measurements on the running platform. Its modules import models, so Django must be set up before them."""
