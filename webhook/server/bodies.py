"""Bodies: JSON that callers post, within its size and its time."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

if TYPE_CHECKING:
    from webhook.server.deadlines import Deadline

__all__ = ["JSON", "Form"]

JSON = "application/json"


class Form:
    """What bodies of a path look like."""

    def __init__(self, holds: str, largest: int, too_large: str) -> None:
        """Describe the bodies of a path.

        Args:
            holds: What a body holds, after "send": `an AdmissionReview`.
            largest: Bytes.
            too_large: The sentence for who sends more.
        """
        self._holds = holds
        self._largest = largest
        self._too_large = too_large

    def check(self, request: web.Request) -> None:
        """See from the head of a call whether its body can be read.

        Raises:
            web.HTTPException: with one plain sentence.
        """
        if request.content_type != JSON:
            shown = json.dumps(request.content_type[:100])
            raise web.HTTPUnsupportedMediaType(text=f"The content type is {shown}; send {self._holds} as {JSON}.")
        if hdrs.CONTENT_ENCODING in request.headers:
            raise web.HTTPUnsupportedMediaType(text="The body has a Content-Encoding; send it as it is.")
        if (request.content_length or 0) > self._largest:
            raise web.HTTPRequestEntityTooLarge(self._largest, text=self._too_large)

    async def read(self, request: web.Request, deadline: Deadline) -> bytes:
        """The body of a call.

        Raises:
            web.HTTPException: with one plain sentence.
        """
        try:
            async with asyncio.timeout(deadline.remaining):
                return await request.clone(client_max_size=self._largest).read()
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text="The body did not arrive before the call's timeout.") from error
        except web.HTTPRequestEntityTooLarge as error:
            raise web.HTTPRequestEntityTooLarge(self._largest, text=self._too_large) from error
        except (ConnectionError, web.RequestPayloadError) as error:
            raise web.HTTPBadRequest(text="The body breaks off.") from error
