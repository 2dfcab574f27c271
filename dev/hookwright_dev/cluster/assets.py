"""Sources of the control plane's binaries.

In order: a folder that the environment names, the cache, the official releases, and a build of ``dev/controlplane``.
"""

import hashlib
import os
import platform
import shutil
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import httpx

from hookwright_dev.cache import acquire_path, build_with_go, cache_folder
from hookwright_dev.errors import ToolError
from hookwright_dev.progress import Show, progress

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
FOLDER_VARIABLE = "HOOKWRIGHT_KUBE_ASSETS"
MODULE = Path(__file__).resolve().parents[2] / "controlplane"
"""The Go module that bundles every part, with a file of requirements for each version of Kubernetes."""

VERSION_VARIABLE = "HOOKWRIGHT_KUBERNETES"
_VERSION_PACKAGE = "k8s.io/component-base/version"
_SHIM = """#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/../controlplane" {part} "$@"
"""
_TIMEOUT = httpx.Timeout(20.0, connect=3.0)  # a closed network must fail fast, so that the build follows
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Kubernetes:
    """A version of Kubernetes that Hookwright is tested on.

    Attributes:
        version: of kube-apiserver, kube-controller-manager and kubectl.
        etcd: the version of etcd.
        module_file: the file of `MODULE` that requires these versions, in the form of a go.mod.
    """

    version: str
    etcd: str
    module_file: str

    @property
    def ldflags(self) -> str:
        """The linker's flags, which keep the version that kubectl and Helm compare."""
        major, minor, _ = self.version.removeprefix("v").split(".")
        values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        return " ".join(["-s", "-w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items())])


NEWEST = Kubernetes("v1.36.3", "v3.6.8", "go.mod")
OLDEST = Kubernetes("v1.31.4", "v3.5.21", "oldest.mod")
"""The oldest minor version that the chart allows."""


def kubernetes(environ: Mapping[str, str] = os.environ) -> Kubernetes:
    """Return the version that ``HOOKWRIGHT_KUBERNETES`` chooses: ``newest``, which is the default, or ``oldest``.

    Raises `ToolError` if it has another value.
    """
    version = environ.get(VERSION_VARIABLE) or "newest"
    try:
        return {"newest": NEWEST, "oldest": OLDEST}[version]
    except KeyError:
        raise ToolError(f'{VERSION_VARIABLE} is "{version}"; it must be newest or oldest') from None


class Assets(NamedTuple):
    """The binaries, in the order of `PARTS`."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubectl: Path

    @classmethod
    def in_folder(cls, folder: Path, origin: str = "the folder") -> Self:
        """Return the binaries in ``folder``; raises `ToolError` if some are missing or not executable."""
        missing = [part for part in PARTS if not os.access(folder / part, os.X_OK)]
        if missing:
            raise ToolError(
                f"{origin} {folder} lacks {', '.join(missing)}; it must contain the executables {', '.join(PARTS)}"
            )
        return cls(*(folder.resolve() / part for part in PARTS))


@dataclass(frozen=True)
class Releases:
    """URLs of official releases, and the machine that they are for (Go's names)."""

    kubernetes: str = "https://dl.k8s.io/release"
    etcd: str = "https://github.com/etcd-io/etcd/releases/download"
    system: str = platform.system().lower()
    machine: str = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def acquire(
    environ: Mapping[str, str] = os.environ, *, module: Path = MODULE, releases: Releases | None = None
) -> Assets:
    """Return the binaries; fetch or build them first if needed (minutes, with a progress display).

    Raises `ToolError` if the folder named by HOOKWRIGHT_KUBE_ASSETS lacks some, or with the error of each source if no
    source works.
    """
    if folder := environ.get(FOLDER_VARIABLE):
        return Assets.in_folder(Path(folder).expanduser(), f"{FOLDER_VARIABLE}:")
    sources: tuple[Callable[[Path], None], ...] = (
        lambda draft: download(draft, releases or Releases(), kubernetes(environ)),
        lambda draft: build(draft, environ, module),
    )
    cache = acquire_path(controlplane_folder(environ, module), "the control plane", lambda draft: _fill(draft, sources))
    return Assets.in_folder(cache / "bin")


def controlplane_folder(environ: Mapping[str, str], module: Path = MODULE) -> Path:
    """Return the cache folder, whose name changes with the Kubernetes version and with the Go module's sources."""
    release = kubernetes(environ)
    digest = hashlib.sha256(release.ldflags.encode())
    for path in (Path("main.go"), Path(release.module_file), Path(release.module_file).with_suffix(".sum")):
        digest.update((module / path).read_bytes())
    return cache_folder(environ) / f"controlplane-{release.version}-{digest.hexdigest()[:8]}"


def _fill(draft: Path, sources: Sequence[Callable[[Path], None]]) -> None:
    """Fill the folder from the first source that succeeds."""
    faults: list[str] = []
    for source in sources:
        shutil.rmtree(draft, ignore_errors=True)
        (draft / "bin").mkdir(parents=True)
        try:
            source(draft)
        except ToolError as fault:
            faults.append(str(fault))
            print(fault, file=sys.stderr)
        else:
            return
    advice = f"or let {FOLDER_VARIABLE} name a folder with {', '.join(PARTS)}"
    raise ToolError("\n".join(["no control plane binaries:", *faults, advice]))


def download(scratch: Path, releases: Releases, release: Kubernetes = NEWEST) -> None:
    """Fetch every part's official release into ``scratch/bin``, verified by its published SHA-256.

    Raises `ToolError` if a release cannot be fetched, or its checksum is not the published one.
    """
    if releases.system != "linux":
        raise ToolError(f"download: official control plane releases exist for linux, not {releases.system}")
    with (
        httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client,
        progress(f"downloading Kubernetes {release.version} and etcd {release.etcd}") as show,
    ):
        for part in PARTS[1:]:
            url = f"{releases.kubernetes}/{release.version}/bin/linux/{releases.machine}/{part}"
            _download_kubernetes(client, url, scratch / "bin" / part, show)
        _download_etcd(client, scratch, releases, release.etcd, show)


def _download_kubernetes(client: httpx.Client, url: str, target: Path, show: Show) -> None:
    checksum = _text(client, f"{url}.sha256").split()[:1]
    _fetch(client, url, target, "".join(checksum), show)
    target.chmod(0o755)


def _download_etcd(client: httpx.Client, scratch: Path, releases: Releases, version: str, show: Show) -> None:
    name = f"etcd-{version}-linux-{releases.machine}"
    url = f"{releases.etcd}/{version}"
    rows = [line.split() for line in _text(client, f"{url}/SHA256SUMS").splitlines()]
    checksum = "".join(row[0] for row in rows if row[1:] == [f"{name}.tar.gz"])
    archive = scratch / "etcd.tar.gz"
    _fetch(client, f"{url}/{name}.tar.gz", archive, checksum, show)
    with tarfile.open(archive) as tar:
        member = tar.extractfile(f"{name}/etcd")
        assert member is not None
        with member, (scratch / "bin" / "etcd").open("wb") as target:
            shutil.copyfileobj(member, target)
    (scratch / "bin" / "etcd").chmod(0o755)
    archive.unlink()


def _text(client: httpx.Client, url: str) -> str:
    try:
        return client.get(url).raise_for_status().text
    except httpx.HTTPError as fault:
        raise ToolError(f"download: {url}: {fault}") from fault


def _fetch(client: httpx.Client, url: str, target: Path, checksum: str, show: Show) -> None:
    digest = hashlib.sha256()
    size = 0
    try:
        with client.stream("GET", url) as response, target.open("wb") as output:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                digest.update(chunk)
                size += output.write(chunk)
                show(f"{target.name}: {size // _MEGABYTE} MB")
    except httpx.HTTPError as fault:
        raise ToolError(f"download: {url}: {fault}") from fault
    if digest.hexdigest() != checksum:
        target.unlink()
        raise ToolError(f"download: {url} has SHA-256 {digest.hexdigest()}, published is {checksum or 'none'}")


def build(scratch: Path, environ: Mapping[str, str], module: Path) -> None:
    """Build the Go module into ``scratch``, with one small script for each part in ``scratch/bin``.

    The first build compiles some 1,700 packages. Later builds only link, because of Go's own cache. Raises `ToolError`
    if Go is missing or the build fails.
    """
    release = kubernetes(environ)
    options = (f"-modfile={release.module_file}", "-ldflags", release.ldflags, ".")
    build_with_go(f"Kubernetes {release.version}", module, scratch / "controlplane", *options, environ=environ)
    for part in PARTS:
        shim = scratch / "bin" / part
        shim.write_text(_SHIM.format(part=part))
        shim.chmod(0o755)
