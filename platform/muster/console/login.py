"""The admin's page for signing in, under the same rule as the REST API's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from muster.accounts.signin import WrongCredentials, describe_session, sign_in
from muster.common.errors import TooMany

if TYPE_CHECKING:
    from django.contrib.admin.forms import AdminAuthenticationForm as AuthenticationForm
else:
    from unfold.forms import AuthenticationForm


class SignInForm(AuthenticationForm):
    """The user name and the password of an operator."""

    retry_after_s: int | None = None

    def clean(self) -> dict[str, Any]:
        """The form's data; `retry_after_s` is set if too many attempts failed before."""
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if self.request is not None and username is not None and password:
            try:
                self.user_cache = sign_in(
                    request=self.request, username=username, password=password, operators_only=True
                )
            except TooMany as refusal:
                self.retry_after_s = refusal.retry_after_s
                raise forms.ValidationError(refusal.detail) from refusal
            except WrongCredentials as refusal:
                raise self.get_invalid_login_error() from refusal
        return self.cleaned_data


admin.site.login_form = SignInForm


def login_page(request: HttpRequest) -> HttpResponse:
    """The page; 403 for a user who is no operator, 429 with Retry-After when too many attempts failed."""
    if request.method == "GET" and request.user.is_authenticated and not admin.site.has_permission(request):
        context = admin.site.each_context(request)
        return TemplateResponse(request, "admin/only_operators.html", context, status=403)
    response = admin.site.login(request)
    if request.method == "POST" and response.status_code == 302:
        describe_session(request)
    form = (getattr(response, "context_data", None) or {}).get("form")
    if isinstance(form, SignInForm) and form.retry_after_s is not None:
        response.status_code = 429
        response.headers["Retry-After"] = str(form.retry_after_s)
    return response
