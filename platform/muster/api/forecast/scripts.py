"""Translating a script into a spec."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from muster.api import limits
from muster.api.base import JSON, ApiView, body_of, caller, describe
from muster.api.bodies import JsonParser
from muster.api.forecast.bodies import Script, ScriptParser
from muster.api.forecast.render import translated_script
from muster.sbatch.services import translate_for
from muster.sbatch.translate import Submission
from muster_client.answers.forecast import TranslatedScript

_BODY = {
    JSON: Script,
    ScriptParser.media_type: {"type": "string", "description": "The script alone."},
}


class TranslateScript(ApiView):
    parser_classes = [JsonParser, ScriptParser]

    @describe("translate_script", "jobs", {200: TranslatedScript}, problems=(429,), request=_BODY)
    def post(self, request: Request) -> Response:
        """Translate a script with `#SBATCH` directives into a spec, and report on each of its options.

        Nothing is submitted: send the spec to `/jobs` for that. A script that Slurm would refuse, or that asks for what
        Muster does not have, is refused with its line.
        """
        user, body = caller(request), body_of(request, Script)
        limits.take(limits.SUBMIT, user.pk)
        found = translate_for(user, Submission(**body))
        return Response(translated_script(found))
