def get_var(name, prompt, other_vars):
    return {"output": "python " + name}
