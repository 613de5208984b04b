def call_api(prompt, options, context):
    if "fail" in prompt:
        return {"error": "told to fail"}
    return {"output": prompt + options["config"]["suffix"] + context["vars"]["x"]}
