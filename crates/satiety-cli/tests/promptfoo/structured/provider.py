def call_api(prompt, options, context):
    if prompt == "fail":
        return {"error": "no answer"}
    return {"output": {"answer": "Hello " + prompt}, "metadata": {"calls": ["lookup"]}}
