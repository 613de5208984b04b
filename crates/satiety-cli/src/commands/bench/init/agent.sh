# The smallest agent: greets the capitalised word after "Greet", if there is one.
name=$(sed -n 's/.*"goal":"Greet \([A-Z][a-z]*\).*/\1/p')
if [ -n "$name" ]; then
    echo "Hello, $name!"
else
    echo "Hello!"
fi
