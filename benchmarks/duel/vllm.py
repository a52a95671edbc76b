"""vLLM: a guest offline, and its server. The peer's path is the Python of its environment."""

from __future__ import annotations

from duel.rows import Figure, Row
from duel.runner import GuestRunner, Measured
from duel.server import Server, free_port


class Vllm(GuestRunner):
    """The model is a Hugging Face folder and runs in bfloat16. The server stays up between rows."""

    figures: tuple[Figure, ...] = (*GuestRunner.figures, "http")
    _server: Server | None = None

    def can(self, row: Row) -> bool:
        return super().can(row) and row.format == "bf16"

    def measure(self, row: Row) -> Measured:
        if row.figure != "http":
            return super().measure(row)
        if self._server is None:
            super().close()
            self._server = self._serve(row)
        return self._server.loaded(self.prompts, row.sizes[0])

    def close(self) -> None:
        super().close()
        if self._server is not None:
            self._server.close()
            self._server = None

    def _serve(self, row: Row) -> Server:
        command = [self.peer.path, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(self.peer.model(row.format)), "--served-model-name", "m"]
        command += ["--host", "127.0.0.1", "--port", free_port(), "--dtype", "bfloat16"]
        command += ["--max-model-len", "2048", "--max-num-seqs", "64", "--no-enable-prefix-caching"]
        environ = {
            "VLLM_CPU_KVCACHE_SPACE": "2",
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{self.threads - 1}",
            "OMP_NUM_THREADS": str(self.threads),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
        }
        return Server(command, self.logs / "vllm-server.log", environ)
