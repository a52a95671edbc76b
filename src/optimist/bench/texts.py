"""What a model is asked when drafts are measured."""

from __future__ import annotations

_TEXT = (
    "The lighthouse at the end of the northern pier was built in the spring of 1884 by a mason called "
    "Edwin Marlow, who had never seen the open sea before he came to the island. He brought eleven men, "
    "two carts and a grey mule with him, and he wrote a letter home every Sunday evening. The stone came "
    "from a quarry behind the village, where the children used to play, and the glass came by ship from "
    "the mainland, packed in straw. In the first winter a storm took the scaffolding and most of the "
    "timber. Nobody was hurt, but the mule ran away and was found three days later in the garden of the "
    "schoolmaster, eating the last of his cabbages. Marlow paid for the cabbages and began again. When "
    "the lamp was lit for the first time, on the second of October, the whole village stood on the beach "
    "and nobody spoke. It turned slowly, and its light fell on the water, on the boats, on the roofs, and "
    "then on the water again. The keeper, a quiet woman called Agnes Thorne, stayed for thirty-one years. "
    "She kept a book in which she noted the weather, the ships that passed and the birds that flew against "
    "the glass, and on the last page she wrote that she had never once been bored. The book is in the "
    "museum today, beside the old lamp and a painting of the mule."
)

CHANGED_WORD = " mule"
"""what the answer may not say, so that it differs from the text at three places"""

REPEAT = [
    {"role": "user", "content": f"Repeat the following text word for word.\n\n{_TEXT}"},
    {"role": "assistant", "content": _TEXT},
    {"role": "user", "content": "Repeat it once more, word for word, but do not say 'mule'."},
]

_CHATS = (
    "What should I think about before I adopt a dog?",
    "Explain to a ten-year-old why the sky is blue.",
    "Write a short poem about a train that is always late.",
    "Give me three ideas for a quick dinner with rice and eggs.",
    "How does a bicycle stay upright while it is moving?",
    "What is the difference between a virus and a bacterium?",
    "Draft a polite email that asks my landlord to repair the heating.",
    "Summarise the plot of Romeo and Juliet in a few sentences.",
)
CHATS = [[{"role": "user", "content": text}] for text in _CHATS]
