"""Django's settings, all derived from the typed environment."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from muster.settings import env, rest
from muster.settings.admin_pages import UNFOLD as UNFOLD

STATE_FOLDER = env.home_folder()
PUBLIC_URL, WEB_URL = env.public_url(STATE_FOLDER), env.web_url()
BIND = os.environ.get("MUSTER_BIND") or ""
SECRET_KEY = env.secret("MUSTER_SECRET_KEY", STATE_FOLDER / "secret_key", size=48)
ENCRYPTION_KEYS = env.encryption_keys(STATE_FOLDER)
DEBUG = env.flag("MUSTER_DEBUG")
ALLOWED_HOSTS = [urlsplit(PUBLIC_URL).hostname or "localhost", "localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "muster.events",
    "muster.accounts",
    "muster.fleet",
    "muster.links",
    "muster.tenants",
    "muster.jobs",
    "muster.logs",
    "muster.outputs",
    "muster.failures",
    "muster.screening",
    "muster.monitoring",
    "muster.shells",
    "muster.notices",
    "muster.samples",
    "muster.cells",
    "muster.sweeps",
    "muster.arrays",
    "muster.sbatch",
    "muster.usage",
    "muster.dispatch",
    "muster.predictions",
    "muster.offers",
    "muster.agents",
    "muster.console",
    "muster.api",
    "muster.help",
    "muster.local",
]

MIDDLEWARE = [
    "muster.common.client_address.ClientAddress",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

ROOT_URLCONF = "muster.urls"
WSGI_APPLICATION = "muster.wsgi.application"
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        # Before those of the apps, of which the admin's skin is one.
        "DIRS": [Path(__file__).parent / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {"default": env.database_settings(os.environ.get("DATABASE_URL") or "postgres://muster@/muster")}
# Where `migrate` connects: as the role that owns the tables, if that is not the role of the processes.
_MIGRATE_URL = os.environ.get("MUSTER_MIGRATE_DATABASE_URL")
MIGRATE_DATABASE = env.database_settings(_MIGRATE_URL) if _MIGRATE_URL else None
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
        "UserAttributeSimilarityValidator",
    )
]
LOGIN_URL = "/signin"
# Where the admin goes on after a sign-in that names no address of this site.
LOGIN_REDIRECT_URL = "/admin/"

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_URL.startswith("https://")
SESSION_ENGINE = "muster.accounts.sessions"
SESSION_IDLE = env.short_time("MUSTER_SESSION_IDLE", "12h")
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
FORMAT_MODULE_PATH = "muster.settings.formats"

UID_RANGE = env.uid_range("MUSTER_UID_RANGE", "70000-99999")
METRICS_TOKEN = env.secret("MUSTER_METRICS_TOKEN", STATE_FOLDER / "metrics_token", size=32)
SAMPLES_KEPT_FOR = env.samples_kept_for()
OUTPUTS_MAX_BYTES = env.bytes_of_mebibytes("MUSTER_OUTPUTS_MIB", "1024")
OUTPUTS_KEPT_FOR = env.long_time("MUSTER_OUTPUTS_KEPT_FOR", "30d")
SHELL_IDLE, SHELL_LONGEST = env.short_time("MUSTER_SHELL_IDLE", "30m"), env.short_time("MUSTER_SHELL_LONGEST", "8h")
SHELLS_PER_JOB, SHELLS_PER_USER = env.count("MUSTER_SHELLS_PER_JOB", "4"), env.count("MUSTER_SHELLS_PER_USER", "8")
OPERATORS_MAIL = env.listed("MUSTER_OPERATORS_MAIL")
# Without a mail server, mails to users would pile up undelivered.
MAIL_TO_USERS = bool(os.environ.get("MUSTER_SMTP_HOST"))
MAILS_PER_HOUR = env.count("MUSTER_MAILS_PER_HOUR", "10")
TRUSTED_PROXIES = env.trusted_proxies(BIND)
WEBHOOK_NETWORKS = ",".join(env.networks("MUSTER_WEBHOOK_NETWORKS"))
WEBHOOK_PORTS = env.ports("MUSTER_WEBHOOK_PORTS", "80,443,1024-65535")
EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_HOST, EMAIL_PORT = os.environ.get("MUSTER_SMTP_HOST") or "localhost", env.port("MUSTER_SMTP_PORT", "25")
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("MUSTER_MAIL_FROM") or "muster@localhost"

FRONTEND_DIST = env.REPOSITORY / "frontend" / "dist"
DOCS = env.REPOSITORY / "docs"
STATIC_URL = "/static/"
STATIC_ROOT = STATE_FOLDER / "static"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

REDIS_URL, CELERY_BROKER_URL = env.redis_urls(os.environ.get("REDIS_URL") or "redis://127.0.0.1:6379/0")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {"dispatch.*": {"queue": "schedule"}}
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 5, "socket_connect_timeout": 2, "retry_on_timeout": True}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_DB_REUSE_MAX = sys.maxsize  # connections are kept between tasks: see muster.celery
# What the worker `default` does by its clocks, and how often. Tasks of one clock wait for each other, and those of the
# first wait for mail servers and receivers of webhooks. Those with a condition, `only_if`, are asked in one statement:
# their periods are multiples of the shortest one, so that they are due together.
PERIODIC_TASKS = (
    {"events.deliver": timedelta(seconds=4), "notices.deliver_webhooks": timedelta(seconds=2)},
    {
        "links.sweep": timedelta(seconds=2),
        "notices.read_events": timedelta(seconds=2),
        "arrays.end": timedelta(seconds=2),
        "sweeps.look": timedelta(seconds=4),
        "usage.grade": timedelta(seconds=10),
        "predictions.read_waits": timedelta(seconds=10),
        "samples.refresh_rates": timedelta(seconds=20),
        "monitoring.look_at_losses": timedelta(seconds=20),
        "samples.roll_up": timedelta(seconds=30),
        "notices.gather": timedelta(minutes=1),
        "usage.count": timedelta(minutes=1),
        "predictions.follow_progress": timedelta(minutes=1),
        "monitoring.look_for_idle_jobs": timedelta(minutes=1),
        "samples.forget": timedelta(minutes=5),
        "accounts.forget": timedelta(minutes=10),
        "dispatch.forget_old_cycles": timedelta(minutes=10),
        "events.forget_deliveries": timedelta(minutes=10),
        "notices.forget": timedelta(minutes=10),
        "offers.forget_old_offers": timedelta(minutes=10),
        "outputs.forget": timedelta(minutes=10),
        "monitoring.count_failures": timedelta(minutes=10),
        "monitoring.forget": timedelta(minutes=10),
        "notices.send_digests": timedelta(minutes=15),
        "predictions.forget_waits": timedelta(minutes=10),
    },
    {"predictions.run_forward": timedelta(minutes=1)},
    {"predictions.train_run_times": timedelta(minutes=10), "predictions.train_waits": timedelta(minutes=10)},
)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "muster.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated", "muster.api.scopes.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "muster.api.openapi.schema.ScopedSchema",
    "EXCEPTION_HANDLER": "muster.api.problems.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Muster",
    "DESCRIPTION": rest.DESCRIPTION,
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": rest.SWAGGER_UI_SETTINGS,
    "COMPONENT_SPLIT_REQUEST": True,
    "OAS_VERSION": "3.1.0",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "muster.api.openapi.schema.complete",
    ],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_NAME_OVERRIDES": {
        "TokenScope": "muster.accounts.scopes.Scope",
        "JobState": "scheduler.model.lifecycle.JobState",
        "GroupState": "scheduler.model.lifecycle.GroupState",
        "MemberState": "muster.jobs.groups.progress.MEMBER_STATES",
        "AttemptState": "scheduler.model.lifecycle.AttemptState",
        "EndReason": "scheduler.model.reasons.Reason",
        "Delay": "scheduler.model.delays.Delay",
        "DelaysBy": "muster.usage.delays.DelayBy",
        "HoldReason": "scheduler.model.lifecycle.HoldReason",
        "DependencyKind": "scheduler.model.dependencies.DependencyKind",
        "DependencyState": "scheduler.model.dependencies.DependencyState",
        "Stage": "scheduler.model.lifecycle.Stage",
        "Desired": "scheduler.model.lifecycle.Desired",
        "Observed": "scheduler.model.lifecycle.Observed",
        "NodeAdmin": "scheduler.model.lifecycle.NodeAdmin",
        "NodeHealth": "scheduler.model.lifecycle.NodeHealth",
        "Role": "muster.tenants.roles.Role",
        "GpuLevel": "scheduler.diagnosis.health.HealthLevel",
        "GpuAction": "scheduler.diagnosis.health.Action",
        "StrikeReason": "muster.fleet.models.StrikeReason",
        "LinkState": "muster.links.models.LinkState",
        "OfferState": "scheduler.model.lifecycle.OfferState",
        "CellState": "scheduler.admission.hived.CellState",
        "OutputFileState": "muster.outputs.models.FileState",
        "Priority": "muster.jobs.spec.spec.PRIORITIES",
        "Grade": "scheduler.diagnosis.efficiency.Grade",
        "GradeSilence": "scheduler.diagnosis.efficiency.NoGradeReason",
        "UsageOutcome": "muster.usage.outcomes.Outcome",
        "UsageBy": "muster.usage.dimensions.By",
        "JobClass": "scheduler.model.lifecycle.JobClass",
        "JobForm": "scheduler.model.lifecycle.RuntimeNeed",
        "OptionFate": "muster.sbatch.options.Fate",
        "OptionSource": "muster.sbatch.options.Source",
        "FailureCategory": "scheduler.diagnosis.failures.evidence.Category",
        "NoticeKind": "muster.jobs.spec.notify.Kind",
        "WebhookState": ("working", "failing", "disabled"),
        "UpOrDown": ("up", "down"),
        "AdviceGivenKindEnum": "scheduler.diagnosis.training.Kind",
        "GoalEnum": "scheduler.search.rungs.Goal",
        "GroupOfJobKindEnum": "scheduler.model.lifecycle.GroupKind",
        "JobRateSourceEnum": "scheduler.predict.rates.RateSource",
        "MethodEnum": "scheduler.search.rungs.Method",
        "PoolDecisionsNeedsEnum": "scheduler.engine.policy.Need",
        "ResultEnum": "muster.fleet.models.CheckResult",
        "RetryEnum": "scheduler.diagnosis.failures.evidence.Retry",
        "RunTimeEstimateSourceEnum": "scheduler.predict.runtimes.quantiles.Source",
        "RunningJobsEnum": "muster.fleet.models.RunningJobs",
        "RuntimeEnum": "muster.jobs.submit.images.JobRuntime",
        "VerdictEnum": "scheduler.diagnosis.screening.ScreeningVerdict",
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {"django.server": {"level": "WARNING"}, "django.request": {"level": "ERROR"}},
}
