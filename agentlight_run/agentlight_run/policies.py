"""The policies that the options ask for: of all calls, or of single roles; probed, served, told to the agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agentlight_instrumentation import settings
from agentlight_run.child import check_program
from agentlight_run.policy import Policy, PolicyError, probe
from agentlight_run.serving import serve
from agentlight_run.single import say
from agentlight_store.redaction import redacted

PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


@dataclass(frozen=True)
class Policies:
    """`of_all` is None where only single roles have one."""

    of_all: Policy | None = None
    of_roles: dict[str, Policy] = field(default_factory=dict)

    @property
    def each(self) -> list[Policy]:
        return [*([] if self.of_all is None else [self.of_all]), *self.of_roles.values()]

    def environment(self) -> dict[str, str]:
        """The variables that tell the agent's process."""
        import json

        servers = {origin: info for policy in self.each for origin, info in policy.servers.items()}
        variables = {settings.SERVERS: json.dumps(servers)}
        if self.of_all is not None:
            variables |= {settings.POLICY: self.of_all.url, settings.POLICY_MODEL: self.of_all.model}
        if self.of_roles:
            of_roles = {role: {"url": one.url, "model": one.model} for role, one in self.of_roles.items()}
            variables[settings.POLICIES] = json.dumps(of_roles)
        if any(one.is_local for one in self.each) and any(os.environ.get(name) for name in PROXIES):
            # An agent behind a proxy would look for this machine's own server there.
            for name in ("no_proxy", "NO_PROXY"):
                variables[name] = ",".join(filter(None, (os.environ.get(name), "127.0.0.1", "localhost")))
        return variables


@contextmanager
def policies_of(options: Any) -> Iterator[Policies | None]:
    """Those that the options name, a served one for as long as the block runs. Raises PolicyError, ServingError."""
    if options.serve is not None:
        check_program(options.command[0])
        with serve(options.serve, options.adapter, log=os.path.join(options.store, "serve.log")) as policy:
            yield _for_components(policy, {}, options.component)
        return
    urls, models = _by_role(options.policy), _by_role(options.policy_model)
    for role in models.keys() - urls.keys():
        raise PolicyError(f"--policy-model {role}=...: there is no --policy {role}=URL" if role else "no --policy URL")
    found = {role: probe(url, models.get(role)) for role, url in urls.items()}
    for policy in found.values():
        if not policy.gives_token_ids:
            say(
                f"{redacted(policy.url)} is no vLLM server: its replies have no token ids, so they cannot be trained on"
            )
    of_all = found.pop(None, None)
    yield _for_components(of_all, {role or "": policy for role, policy in found.items()}, options.component)


def _for_components(of_all: Policy | None, of_roles: dict[str, Policy], components: list[str]) -> Policies:
    if components and of_all is not None:
        return Policies(None, dict.fromkeys(components, of_all) | of_roles)
    return Policies(of_all, of_roles)


def _by_role(words: list[str]) -> dict[str | None, str]:
    """`ROLE=VALUE` and `VALUE`, whose role is None. An `=` behind "://" belongs to a URL."""
    found: dict[str | None, str] = {}
    for word in words:
        role, equals, value = word.partition("=")
        named = bool(equals) and "://" not in role
        key, text = (role, value) if named else (None, word)
        if key in found:
            raise PolicyError(f"two policies for {key or 'all calls'}: {redacted(found[key])} and {redacted(text)}")
        found[key] = text
    return found
