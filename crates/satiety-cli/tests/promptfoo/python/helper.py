WANTED = "abc"
