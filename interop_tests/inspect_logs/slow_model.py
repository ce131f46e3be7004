"""A model for Inspect that needs no network: slow by a seeded amount, with replies that depend on the question."""

import asyncio
import zlib

from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi


@modelapi(name="slow")
class SlowModel(ModelAPI):
    """As a judge, it grades by the question; otherwise it answers with a number."""

    async def generate(self, input, tools, tool_choice, config):
        text = input[-1].text
        number = zlib.crc32(text.encode())
        await asyncio.sleep(0.02 * (number % 10))
        said = (
            f"GRADE: {'CIP'[number % 3]}" if "GRADE" in text else f"Default answer {number} {'words ' * (number % 50)}"
        )
        output = ModelOutput.from_content(self.model_name, said)
        used = number % 50
        output.usage = ModelUsage(
            input_tokens=len(text), output_tokens=used, total_tokens=len(text) + used + 7, input_tokens_cache_read=7
        )
        return output

    async def count_text_tokens(self, text):
        return len(text) // 4

    def max_connections(self):
        return 50
