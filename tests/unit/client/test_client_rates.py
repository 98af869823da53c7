"""`muster show` tells how fast a job is on each GPU type, and how surely."""

from muster_client.answers.jobs import JobRate
from muster_client.show.marks import rate_text


def test_a_rate_is_told_with_its_deviation_and_source() -> None:
    rate = JobRate(gpu_type="A100", gpus=8, per_s=410.4, deviation=30.2, source="measured")
    assert rate_text(rate) == "8 A100: 410 ± 30 per s measured"
    assert rate_text({**rate, "deviation": None, "source": "claimed"}) == "8 A100: 410 per s claimed"
