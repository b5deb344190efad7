"""kubernetes-asyncio's reading of configurations, without its models.

`import kubernetes_asyncio` loads 950 modules of generated models and APIs, whichever part is named: 37 MiB and 180 ms
that nothing here uses. What reads kubeconfigs and pods' credentials needs 2 MiB and 25 ms. So that part is imported
while bare packages stand in for the ones whose `__init__` imports everything, and afterwards nothing of it is left in
`sys.modules`: whoever imports the library later gets all of it. Where a release of it is built otherwise, it is
imported whole.
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

__all__ = ["Configuration", "KubernetesConfig", "kubernetes_config"]

_LIBRARY = "kubernetes_asyncio"

_logger = logging.getLogger("gpu_admission.cluster")


class Configuration(Protocol):
    """What a kubeconfig or a pod says about reaching its cluster; the part that is used here."""

    host: str
    api_key: dict[str, str]
    ssl_ca_cert: str | None
    cert_file: str | None
    key_file: str | None
    verify_ssl: bool
    tls_server_name: str | None
    proxy: str | None

    async def get_api_key_with_prefix(self, identifier: str) -> str | None:
        """The value of the Authorization header, read again where it can change; None for none."""
        ...


@dataclass(frozen=True, slots=True)
class KubernetesConfig:
    """The classes that read configurations. The library's own types would make mypy read all its models."""

    configuration: Any
    kubeconfig_merger: Any
    kubeconfig_loader: Any
    in_cluster_loader: Any
    exception: type[Exception]
    """Raised with a text for people; other exceptions mean that the library stumbled."""


def kubernetes_config() -> KubernetesConfig:
    """The part of the library that reads configurations."""
    if _LIBRARY in sys.modules:
        return _parts()
    before = dict(sys.modules)
    try:
        _stand_in()
        return _parts()
    except (ImportError, AttributeError) as error:
        _forget(before)
        _logger.warning(
            "kubernetes-asyncio is not built as expected (%s); it is imported whole, which takes 35 MiB more", error
        )
        return _parts()
    finally:
        if not hasattr(sys.modules.get(_LIBRARY), "__file__"):
            _forget(before)


def _stand_in() -> None:
    """Put bare packages in place of the library and of its `client`, with what `config` takes from there."""
    spec = find_spec(_LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"there is no package {_LIBRARY}")
    root, client = ModuleType(_LIBRARY), ModuleType(f"{_LIBRARY}.client")
    root.__path__ = [*spec.submodule_search_locations]
    client.__path__ = [str(Path(folder, "client")) for folder in root.__path__]
    sys.modules.update({root.__name__: root, client.__name__: client})
    vars(client)["Configuration"] = import_module(f"{_LIBRARY}.client.configuration").Configuration
    vars(client)["ApiClient"] = None


def _parts() -> KubernetesConfig:
    kubeconfig = import_module(f"{_LIBRARY}.config.kube_config")
    # It logs what it raises too, and there is room in that for tokens.
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
    """Take out what was imported of the library since; the classes in use keep their modules alive."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == _LIBRARY and name not in before:
            del sys.modules[name]
