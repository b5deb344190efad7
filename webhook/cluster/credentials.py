"""Kubeconfigs and ServiceAccounts: their files, contexts and credentials."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import yaml
from yaml import YAMLError

from policies.kubernetes.objects import DEFAULT_NAMESPACE
from webhook.cluster.answers import NoCluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from kubernetes_asyncio.client.configuration import Configuration


T = TypeVar("T")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's token and namespace, and the cluster's CA."""
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
"""The variable that is set in every pod."""


def kubeconfig_files(kubeconfig: str | None, environ: Mapping[str, str]) -> list[str]:
    """The kubeconfigs that kubectl would use.

    They are the given ones, else those of KUBECONFIG, else ~/.kube/config; a pod without the first two has none. Files
    may not exist. Several are separated by colons; empty parts are skipped, as in kubectl.
    """
    named = [path for path in (kubeconfig or environ.get("KUBECONFIG") or "").split(os.pathsep) if path]
    if named or environ.get(SERVICE_HOST):
        return named
    return [str(Path(environ.get("HOME") or "/", ".kube", "config"))]


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for a URL; None for a direct connection.

    As in client-go (golang.org/x/net/http/httpproxy): HTTPS_PROXY or HTTP_PROXY in upper or lower case, and NO_PROXY with
    names, domains, addresses, networks such as 10.0.0.0/8, ports, or `*`. Python's own parser does not support networks,
    which the NO_PROXY of most clusters contains.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    address = _address_or_none(ip_address, host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return None
    variable = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(variable) or environ.get(variable.lower())
    exempt = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not proxy or any(_covers(pattern.strip().lower(), host, port) for pattern in exempt.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _covers(pattern: str, host: str, port: int) -> bool:
    if pattern == "*":
        return True
    network = _address_or_none(partial(ip_network, strict=False), pattern)
    if network is not None:
        address = _address_or_none(ip_address, host)
        return address is not None and address in network
    name, colon, digits = pattern.rpartition(":")
    if colon and digits.isdigit():
        if int(digits) != port:
            return False
        pattern = name.strip("[]")
    if not pattern:
        return False
    domain = pattern.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and pattern == domain)


def _address_or_none(parse: Callable[[str], T], text: str) -> T | None:
    try:
        return parse(text)
    except ValueError:
        return None


_SERVICE_PORT = "KUBERNETES_SERVICE_PORT"

_RENEWAL_PAUSE = 10.0
"""Seconds between two reads, so that a refused token does not run the credential plugin for every request."""
_PLUGIN_TIMEOUT = 60.0
"""Seconds for a credential plugin to answer; it may wait for input at a terminal."""
_EXPIRY_MARGIN = timedelta(minutes=1)

_logger = logging.getLogger("gpu_admission.cluster")


@dataclass(frozen=True, slots=True)
class Access:
    """The way to connect. Equal values connect alike, because the contents of the files are included."""

    url: str
    """Without a trailing slash; may have a path, as behind Rancher."""
    proxy: str | None
    server_name: str | None
    """The name that the certificate must have; None for the host of the URL."""
    verify: bool
    ca: bytes | None
    """PEM certificates to trust; None for the system's."""
    certificate: tuple[str, str] | None
    """Files of the client certificate and its key, PEM."""
    certificate_content: bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one read."""

    access: Access
    authorization: Callable[[], Awaitable[str | None]]
    """Returns the Authorization header, with the present content of a token file; None without credentials."""
    expires: datetime | None = None
    """When to read again; None if the credentials do not say."""


@dataclass(eq=False)
class Credentials:
    """Credentials that are read again when they expire and when the API server refuses them."""

    read: Callable[[], Awaitable[Reading]]
    """Reads the files and runs the credential plugin."""
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """The time of day, for expiry dates."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _reading: Reading | None = field(default=None, init=False)
    _read_at: float = field(default=-math.inf, init=False)
    _authorization: str = field(default="", init=False)

    async def load(self) -> None:
        """Read for the first time.

        Raises:
            NoCluster: There are no usable credentials.
        """
        self._reading = await self.read()

    @property
    def access(self) -> Access:
        """The way to connect, by the last read."""
        return self._loaded.access

    async def authorization(self) -> str:
        """The Authorization header; empty with a client certificate or without credentials."""
        expires = self._loaded.expires
        if expires is not None and self.now() >= expires - _EXPIRY_MARGIN:
            await self.renew(self._loaded)
        try:
            header = await self._loaded.authorization()
        except Exception as error:  # noqa: BLE001 - the library raises what reading files does, and more
            _logger.warning("cannot read the token, using the last one: %s: %s", type(error).__name__, error)
        else:
            self._authorization = (header or "").strip()
        return self._authorization

    @property
    def reading(self) -> object:
        """Identifies the last read, for `renew`."""
        return self._loaded

    async def renew(self, seen: object) -> bool:
        """Read again, because the credentials were refused or expire.

        Args:
            seen: `reading` at the time of the refused request; does nothing if another read happened since.

        Returns:
            True if a retry may succeed.
        """
        async with self._lock:
            if self._reading is not seen:
                return True
            if self.clock() - self._read_at < _RENEWAL_PAUSE:
                return False
            self._read_at = self.clock()
            try:
                self._reading = await self.read()
            except NoCluster as error:
                _logger.warning("cannot read the credentials again, using the last ones: %s", error)
                return False
            return True

    @property
    def _loaded(self) -> Reading:
        if self._reading is None:
            raise NoCluster("the credentials have not been read yet")
        return self._reading


async def find_credentials(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """The credentials of the given kubeconfig, else of KUBECONFIG, the pod, or ~/.kube/config.

    KUBECONFIG takes precedence over the pod's ServiceAccount, as in controller-runtime: it was set on purpose, and a
    test that runs in one cluster must not change that one by mistake.

    Args:
        kubeconfig: A file, or several, separated by colons.
        context: A context of the kubeconfig; by default its current one.
        environ: The environment.
        service_account: The folder of the pod's token and CA.

    Raises:
        NoCluster: No credentials exist, or they cannot be used.
    """
    files = kubeconfig_files(kubeconfig, environ)
    paths = os.pathsep.join(files)
    if not files:
        credentials = Credentials(lambda: _read_service_account(environ, service_account))
    elif kubeconfig or environ.get("KUBECONFIG") or _is_any_file(files):
        credentials = Credentials(lambda: _read_kubeconfig(paths, context, environ))
    else:
        raise NoCluster(
            f"no cluster configured: not in a pod ({SERVICE_HOST} is not set), KUBECONFIG is not set, and {paths} does not exist; "
            "set KUBECONFIG to a kubeconfig file"
        )
    await credentials.load()
    return credentials


async def _read_service_account(environ: Mapping[str, str], folder: Path) -> Reading:
    """Read the credentials that the kubelet mounts into a pod.

    Source: kubernetes.io/docs/tasks/run-application/access-api-from-pod
    """
    host, port = environ.get(SERVICE_HOST, ""), environ.get(_SERVICE_PORT, "")
    if not port:
        raise NoCluster(f"set {_SERVICE_PORT}: {SERVICE_HOST} is set, as in a pod, but no port")
    url = _checked_url(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")

    async def authorization() -> str:
        # The kubelet replaces the token long before it expires; reading the file takes microseconds.
        return f"Bearer {_read_mounted(folder / 'token')}"

    await authorization()
    ca = _read_mounted(folder / "ca.crt").encode()
    return Reading(Access(url, proxy_for(url, environ), None, True, ca, None, b""), authorization)


def _read_mounted(file: Path) -> str:
    """The content of a file that the kubelet mounts.

    Raises:
        NoCluster: The file is empty or cannot be read.
    """
    check = "check automountServiceAccountToken of the pod and of its ServiceAccount"
    try:
        content = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoCluster(f"{check}: cannot read {file}: {getattr(error, 'strerror', error)}") from error
    if not content:
        raise NoCluster(f"{check}: {file} is empty")
    return content


async def _read_kubeconfig(paths: str, context: str | None, environ: Mapping[str, str]) -> Reading:
    if not _is_any_file(paths.split(os.pathsep)):
        raise NoCluster(f"kubeconfig file {paths} not found")
    # The library imports all its models: 170 ms and 37 MiB, which a replica in a pod does not pay.
    from kubernetes_asyncio.client.configuration import Configuration
    from kubernetes_asyncio.config import ConfigException, kube_config

    # It logs its errors too, and they may contain tokens.
    kube_config.logger.disabled = True
    configuration = Configuration()
    try:
        merger = kube_config.KubeConfigMerger(paths)
        if merger.config is None:
            raise NoCluster("the file was removed while it was read")  # noqa: TRY301 - the file is named below
        loader = kube_config.KubeConfigLoader(
            merger.config, active_context=context or None, config_base_path=None, config_persister=merger.save_changes
        )
        _check_user(merger.config.value, loader.current_context)
        async with asyncio.timeout(_PLUGIN_TIMEOUT):
            await loader.load_and_set(configuration)
    except NoCluster as error:
        raise NoCluster(f"cannot use the kubeconfig {paths}: {error}") from error
    except TimeoutError as error:
        raise NoCluster(
            f"the credential plugin of the kubeconfig {paths} did not answer within {_PLUGIN_TIMEOUT:g} seconds; "
            "run kubectl once to see what it waits for"
        ) from error
    except Exception as error:
        raise NoCluster(f"cannot use the kubeconfig {paths}: {_error_text(error, ConfigException)}") from error
    return Reading(
        _access(configuration, environ),
        partial(configuration.get_api_key_with_prefix, "BearerToken"),
        getattr(loader, "exec_plugin_expiry", None),
    )


def _is_any_file(paths: Iterable[str]) -> bool:
    return any(Path(path).expanduser().is_file() for path in paths)


def _check_user(config: dict[str, list[dict[str, object]]], context: dict[str, object] | None) -> None:
    """Check that the context's user exists; the library would raise a KeyError.

    Raises:
        NoCluster: It does not.
    """
    inner = context.get("context") if context else None
    user = inner.get("user") if isinstance(inner, dict) else None
    name = context.get("name") if context else None
    if not user:
        raise NoCluster(f"context {name!r} has no user; add an entry under users, and its name to the context")
    if not any(entry["name"] == user for entry in config["users"]):
        raise NoCluster(f"context {name!r} has the user {user!r}, which is not found under users")


def _access(configuration: Configuration, environ: Mapping[str, str]) -> Access:
    url = _checked_url((configuration.host or "").rstrip("/"))
    if configuration.proxy is not None and not _is_url(configuration.proxy):
        raise NoCluster("the proxy-url of the cluster must be a URL that begins with https:// or http://")
    if not isinstance(configuration.tls_server_name, str | None):
        raise NoCluster("the tls-server-name of the cluster must be a string")
    certificate = (configuration.cert_file, configuration.key_file or configuration.cert_file)
    return Access(
        url=url,
        proxy=configuration.proxy or proxy_for(url, environ),
        server_name=configuration.tls_server_name,
        verify=configuration.verify_ssl,
        ca=_content(configuration.ssl_ca_cert),
        certificate=(certificate[0], certificate[1]) if certificate[0] and certificate[1] else None,
        certificate_content=b"".join(_content(file) or b"" for file in certificate),
    )


def _checked_url(url: str) -> str:
    if not _is_url(url):
        raise NoCluster(f"the server {url[:200]!r} must be a URL that begins with https:// or http://")
    return url


def _is_url(text: object) -> bool:
    try:
        parts = urlsplit(text if isinstance(text, str) else "")
        return parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _content(file: str | None) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else None
    except OSError as error:
        raise NoCluster(f"cannot read {file}: {error.strerror}") from error


def _error_text(error: Exception, of_library: type[Exception]) -> str:
    """The error as a sentence, without quotes from the file, which may contain tokens."""
    if not isinstance(error, of_library | OSError | ValueError | YAMLError):
        return f"invalid kubeconfig ({type(error).__name__})."
    text = re.sub(r"\{.*\}", "{...}", " ".join(str(error).split()))
    return f"{text[:500].rstrip('.')}."


def context_namespace(
    kubeconfig: str | None,
    context: str | None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> str:
    """The namespace of a context, as kubectl uses it without `-n`; empty if there is no such context.

    In a pod without a kubeconfig it is the namespace of the pod.

    Args:
        kubeconfig: A file, or several, separated by colons; by default KUBECONFIG, then ~/.kube/config.
        context: A name; by default that of the current context.
        environ: The environment.
        service_account: The folder with the ServiceAccount of this pod.
    """
    files = kubeconfig_files(kubeconfig, environ)
    if not files:
        try:
            return (service_account / "namespace").read_text(encoding="utf-8").strip()
        except OSError:
            return ""
    configs = [*_configs(files)]
    current = (config["current-context"] for config in configs if config.get("current-context"))
    fields = _contexts(configs).get(context or next(current, ""))
    return "" if fields is None else str(fields.get("namespace") or DEFAULT_NAMESPACE)


def context_names(kubeconfig: str | None, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The names of all contexts; arguments as for `context_namespace`."""
    return tuple(_contexts([*_configs(kubeconfig_files(kubeconfig, environ))]))


def _configs(files: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The contents of the files; files that cannot be read are reported by commands that connect."""
    for path in (Path(each).expanduser() for each in files):
        try:
            # A pipe or a device may never end.
            content = yaml.load(path.read_bytes(), yaml.CSafeLoader) if path.is_file() else None
        except (OSError, yaml.YAMLError):
            continue
        if isinstance(content, dict):
            yield content


def _contexts(configs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The fields of each context by its name; of two contexts with one name, the first counts."""
    found: dict[str, dict[str, Any]] = {}
    for config in configs:
        entries = config.get("contexts")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                fields = entry.get("context")
                found.setdefault(entry["name"], fields if isinstance(fields, dict) else {})
    return found
