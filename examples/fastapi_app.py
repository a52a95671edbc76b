"""An engine inside a FastAPI application.

uvicorn fastapi_app:app
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from optimist import Engine, SamplingParams


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Engine() as engine:
        app.state.engine = engine
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/story")
async def story(request: Request, about: str, words: int = 50) -> StreamingResponse:
    engine: Engine = request.app.state.engine
    chunks = engine.generate(f"A story about {about}: ", SamplingParams(max_tokens=words))

    async def text() -> AsyncIterator[str]:
        async for chunk in chunks:
            yield chunk.text

    return StreamingResponse(text(), media_type="text/plain")


@app.get("/health")
async def health(request: Request) -> dict[str, object]:
    engine: Engine = request.app.state.engine
    return engine.health()._asdict()
