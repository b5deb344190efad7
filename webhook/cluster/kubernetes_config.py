"""The part of kubernetes-asyncio that reads configurations, without its models.

`import kubernetes_asyncio` loads 950 modules of generated models and APIs, whichever part is imported: 37 MiB and
180 ms. The part that reads kubeconfigs and pods' credentials needs 2 MiB and 25 ms. It is imported while empty packages
replace those whose `__init__` imports everything; then it is removed from `sys.modules`, so that a later import of the
library is complete. If a release has a different structure, the whole library is imported.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

__all__ = ["Configuration", "kubernetes_config"]

_LIBRARY = "kubernetes_asyncio"

_logger = logging.getLogger("gpu_admission.cluster")


class Configuration(Protocol):
    """How to reach the cluster of a kubeconfig or a pod; the fields that are used here."""

    host: str
    ssl_ca_cert: str | None
    cert_file: str | None
    key_file: str | None
    verify_ssl: bool
    tls_server_name: str | None
    proxy: str | None

    async def get_api_key_with_prefix(self, identifier: str) -> str | None:
        """The value of the Authorization header, read again if it can change; None without one."""
        ...


@dataclass(frozen=True, slots=True)
class KubernetesConfig:
    """The classes that read configurations. The library's own types would make mypy read all its models."""

    configuration: Any
    kubeconfig_merger: Any
    kubeconfig_loader: Any
    in_cluster_loader: Any
    exception: type[Exception]
    """Raised with a message for users; other exceptions are defects of the library."""


def kubernetes_config() -> KubernetesConfig:
    """Imports the part of the library that reads configurations."""
    if _LIBRARY in sys.modules:
        return _parts()
    before = dict(sys.modules)
    try:
        _stand_in()
        return _parts()
    except (ImportError, AttributeError) as error:
        _forget(before)
        _logger.warning(
            "kubernetes-asyncio has an unknown structure (%s); importing all of it, which takes 35 MiB more", error
        )
        return _parts()
    finally:
        if not hasattr(sys.modules.get(_LIBRARY), "__file__"):
            _forget(before)


def _stand_in() -> None:
    """Replace the library and its `client` by empty packages, with the names that `config` imports."""
    spec = find_spec(_LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"package {_LIBRARY} not found")
    root, client = ModuleType(_LIBRARY), ModuleType(f"{_LIBRARY}.client")
    root.__path__ = [*spec.submodule_search_locations]
    client.__path__ = [str(Path(folder, "client")) for folder in root.__path__]
    sys.modules.update({root.__name__: root, client.__name__: client})
    vars(client)["Configuration"] = import_module(f"{_LIBRARY}.client.configuration").Configuration
    vars(client)["ApiClient"] = None


def _parts() -> KubernetesConfig:
    kubeconfig = import_module(f"{_LIBRARY}.config.kube_config")
    # It logs its errors too, and they may contain tokens.
    kubeconfig.logger.disabled = True
    in_cluster = import_module(f"{_LIBRARY}.config.incluster_config")
    return KubernetesConfig(
        configuration=import_module(f"{_LIBRARY}.client.configuration").Configuration,
        kubeconfig_merger=kubeconfig.KubeConfigMerger,
        kubeconfig_loader=kubeconfig.KubeConfigLoader,
        in_cluster_loader=in_cluster.InClusterConfigLoader,
        exception=in_cluster.ConfigException,
    )


def _forget(before: dict[str, ModuleType]) -> None:
    """Remove the library's modules imported since; the classes in use keep their modules alive."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == _LIBRARY and name not in before:
            del sys.modules[name]
