"""The applications of a trace: how fast they train on which GPUs, as their authors measured it."""

from scheduler.sim.applications.measured import Application, ApplicationError, load_applications
from scheduler.sim.applications.pollux import PolluxWork
from scheduler.sim.applications.throughputs import Throughputs, read_throughputs
