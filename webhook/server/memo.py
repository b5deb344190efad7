"""The memo: answers for pods, which the next pods of the same templates get too.

The pods of a Deployment or Job differ in names and uids, which no rule reads. They get the answer of an earlier one, as long
as nothing has changed that the answer depends on:

- The request: its entry, its namespace and the common part of its pod are the key of an answer, byte for byte.
- The caller: the exemptions that apply are in the key; rules see no user.
- The settings: an answer under other settings does not count.
- The cluster: a view records the facts that rules read. They are looked up again before an answer is used.

An answer is kept from the second pod on, so that callers who never repeat a pod fill no memory.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from operator import is_, methodcaller
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

import orjson

from policies.admission import REPEATABLE, common_object, common_request
from policies.kubernetes.bounds import BoundedCache, Work, bounded_by
from policies.kubernetes.view import PassingView
from policies.rules.settings import ExemptPolicy, settings_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.admission import Course, Entry
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Digest
    from policies.rules.decision import Decision
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MOST_BYTES = 16 * 1024 * 1024
"""All answers together, with their keys and the facts that they depend on."""
_LONGEST_KEY = 32 * 1024
"""Bytes. Larger pods are rare, and reviewed in a thread."""
_LARGEST_FACT = 32 * 1024
"""Bytes. An answer that depends on larger objects is not kept."""
_MOST_SEEN = 4096
"""Keys that are remembered without an answer."""
_WORK = 500
"""Units of work to find out whether facts have changed; computing a digest takes more."""
_BYTES_PER_CHARACTER, _BYTES_PER_FACT, _BYTES_PER_ANSWER = 8, 512, 2048
"""Memory of an answer for each byte of its JSON, for each fact, and for itself."""


class Memo:
    """Answers for pods, by everything that they depend on. Threads may share it."""

    def __init__(self, view: ClusterView, most: int = _MOST_BYTES) -> None:
        """Create an empty memo of answers about a cluster.

        Args:
            view: The cluster.
            most: The maximum size of all answers, in bytes.
        """
        self.answers: BoundedCache[bytes, KnownAnswer] = BoundedCache(most)
        self.view = view
        self._facts: WeakValueDictionary[_Question, _Fact] = WeakValueDictionary()
        self._seen: OrderedDict[int, None] = OrderedDict()

    def find(self, entry: Entry, request: Request, settings: GPUAdmissionPolicy) -> KnownAnswer | Recording | None:
        """The known answer for a request, or a recording, with which its review becomes a known answer.

        None if the request is not about a new pod, or no pod of its template was seen before.
        """
        if next(iter(entry.concerns)) not in REPEATABLE or (common := common_object(request)) is None:
            return None
        own = settings_for(request.user, request.namespace, settings)
        key = _key(request, common, own)
        if key is None:
            return None
        known = self.answers.get(key)
        if known is None and not self._has_seen(key):
            return None
        if known is not None and known.settings is settings and self._holds(known):
            return known
        return Recording(self, key, settings, common_request(request, common), own)

    def _has_seen(self, key: bytes) -> bool:
        """True if a key was seen before."""
        number = hash(key)
        if self._seen.pop(number, self) is None:
            return True
        self._seen[number] = None
        while len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
        return False

    def _holds(self, known: KnownAnswer) -> bool:
        """True if no fact has changed; False if finding out takes long or fails."""
        if not known.facts:
            return True
        try:
            with bounded_by(Work(_WORK)):
                return all(fact.holds(self.view) for fact in known.facts)
        except Exception:  # noqa: BLE001 - the review then fails in the same way, and its entry says what that means
            return False

    def fact(self, question: _Question, answer: Any) -> _Fact:
        """The fact that a question has this answer; an earlier answer to it is dropped."""
        known = self._facts.get(question)
        if known is not None:
            if _is_same(question, known.answer, answer):
                return known
            known.answer = _CHANGED
        fact = self._facts[question] = _Fact(question, answer)
        return fact


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The answer for a pod."""

    conversion: Decision | None
    """The answer of conversion, without its object; None if the entry has no such concern."""
    decision: Decision
    """The decision after the concerns that are `REPEATABLE`, without its object."""
    settings: GPUAdmissionPolicy
    """The settings of the server."""
    facts: tuple[_Fact, ...]
    """The facts of the cluster that the rules read."""

    @property
    def size(self) -> int:
        """The memory in bytes, roughly, with all its facts."""
        found = [(each.message, each.remedy, each.path, each.waived) for each in self.decision.findings]
        texts = self.decision.patch, found, self.decision.templates, self.decision.remarks, self.decision.annotations
        facts = sum(_BYTES_PER_FACT + fact.size for fact in self.facts)
        return _BYTES_PER_ANSWER + _BYTES_PER_CHARACTER * _bytes_of(texts) + facts


_Question = tuple[Any, ...]
"""The name of a view's method, and its arguments."""
_CHANGED = object()
"""The answer of a fact that has changed."""


class _Fact:
    """An answer of a view to one question, shared by all known answers that depend on it.

    It is dropped when the view answers otherwise, so that old digests of a cluster do not stay in memory.
    """

    __slots__ = ("__weakref__", "answer", "ask", "question", "size")

    def __init__(self, question: _Question, answer: Any) -> None:
        self.question = question
        self.ask = methodcaller(*question)
        self.answer = answer
        self.size = _size(question, answer)

    def holds(self, view: ClusterView) -> bool:
        """True if the view still gives this answer."""
        if self.answer is _CHANGED:
            return False
        answer = self.ask(view)
        if _is_same(self.question, self.answer, answer):
            return True
        self.answer = _CHANGED
        return False


_LISTS = frozenset({"list", "derive_each", "objects_under_review"})
_VALUES = frozenset({"count_each", "others_on", "server_version", "feature_gates"})


def _is_same(question: _Question, before: Any, now: Any) -> bool:
    """True if two answers to a question are the same.

    A view replaces objects and results that change, and never changes one, so their identity decides.
    """
    if before is now:
        return True
    method = question[0]
    if method == "digest":
        return before is not _CHANGED and before.result is now.result
    if method in _VALUES:
        return bool(before == now)
    if method in _LISTS and isinstance(before, list | tuple) and isinstance(now, list | tuple):
        return len(before) == len(now) and all(map(is_, before, now))
    return False


def _size(question: _Question, answer: Any) -> int:
    """The bytes of a fact that users choose: an object, or the objects of a namespace."""
    is_chosen = question[0] == "get" or (question[0] == "list" and bool(question[2]))
    return _bytes_of(question[1:]) + (_bytes_of(answer) if is_chosen else 0)


def _bytes_of(value: Any) -> int:
    return len(orjson.dumps(value, default=str))


def _key(request: Request, common: Object, settings: GPUAdmissionPolicy) -> bytes | None:
    """Everything in a request that an answer may depend on, as JSON; None if it is too long."""
    exempt_from = sorted(settings.exempt_from) if isinstance(settings, ExemptPolicy) else ()
    facts = request.entry, request.namespace, request.dry_run, request.compares, request.caller_is_known, exempt_from
    try:
        key = orjson.dumps((facts, common))
    except TypeError:
        return None
    return key if len(key) <= _LONGEST_KEY else None


class Recording(PassingView):
    """A view that records the facts that the rules of one review read, to keep its answer with them.

    A question has the same answer throughout the review, so that all rules see the same cluster.
    """

    def __init__(
        self,
        memo: Memo,
        key: bytes,
        server_settings: GPUAdmissionPolicy,
        request: Request,
        settings: GPUAdmissionPolicy,
    ) -> None:
        super().__init__(memo.view)
        self.request = request
        """The request as rules see it."""
        self.settings = settings
        """The settings for the user."""
        self._memo = memo
        self._key = key
        self._server_settings = server_settings
        self._read: dict[_Question, tuple[Any, _Fact]] = {}

    def keep(self, course: Course) -> None:
        """Keep the answers of a course, unless they depend on more than the recorded facts."""
        facts = tuple(fact for _, fact in self._read.values())
        if course.failures or not course.is_repeatable or any(fact.size > _LARGEST_FACT for fact in facts):
            return
        conversion = course.answers.get("conversion")
        if conversion is not None:
            conversion = replace(conversion, object=None)
        known = KnownAnswer(conversion, replace(course.decision, object=None), self._server_settings, facts)
        # A copy, because orjson leaves up to 30 KiB of room behind what it writes.
        key = bytes(memoryview(self._key))
        self._memo.answers.put(key, known, len(key) + known.size)

    def digest(self, function: Callable[[ClusterView], T]) -> Digest[T]:
        """The digest of the view."""
        return self._ask("", self._view.digest, function)

    def _ask(self, kind: str, question: Callable[[*Ts], T], *args: *Ts) -> T:
        key = question.__name__, *args
        read = self._read.get(key)
        if read is None:
            answer = super()._ask(kind, question, *args)
            read = self._read[key] = answer, self._memo.fact(key, answer)
        answered: T = read[0]
        return answered
