import asyncio


async def answer(prompt, options, context):
    await asyncio.sleep(0)
    if context["vars"]["role"] == "broken":
        return {"error": "cannot answer"}
    return {"output": "python says " + prompt}
