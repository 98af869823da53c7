"""The introduction to REST that its documentation shows, with examples that tests run."""

DESCRIPTION = """
Submit, watch and manage jobs on a multi-tenant GPU cluster.

The examples need the address of the server and an API token, which you create on the page
[Settings](/settings) or with `muster tokens create`:

    export MUSTER_URL=https://muster.example.org
    export MUSTER_TOKEN=mst_...

Every error is a problem document (RFC 9457). Its `detail` says what is wrong, and `errors` names the fields.

### Submit a job

The body is the same spec that `muster submit` reads. The answer has the `id` of the job.

```bash
curl -sS "$MUSTER_URL/api/v1/jobs" \\
  -H "Authorization: Bearer $MUSTER_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{"name": "hello", "command": "nvidia-smi", "gpus": 1, "time": "1h"}'
```

### Follow the log of a job

The answer is a stream of server-sent events: `log` with a piece of text, `state`, and `end` when the job has ended.

```bash
JOB=1042
curl -sSN "$MUSTER_URL/api/v1/jobs/${JOB}/logs?follow=1" \\
  -H "Authorization: Bearer $MUSTER_TOKEN"
```

### Cancel a job

```bash
JOB=1042
curl -sS -X POST "$MUSTER_URL/api/v1/jobs/${JOB}:cancel" \\
  -H "Authorization: Bearer $MUSTER_TOKEN"
```
"""

# The whole document takes a browser several times as long as the part of one group, which is chosen at the top. The
# validator of swagger.io would be sent the address of the document.
SWAGGER_UI_SETTINGS = """{
  urls: ["jobs", "arrays", "sweeps", "queue", "cluster", "usage", "account", "offers", "service"].map(
    name => ({name, url: "/api/v1/openapi.json?group=" + name})
  ).concat({name: "everything", url: "/api/v1/openapi.json"}),
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
  layout: "StandaloneLayout",
  deepLinking: true,
  "validatorUrl": null,
  defaultModelsExpandDepth: -1,
}"""
