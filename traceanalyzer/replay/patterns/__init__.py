"""The language in which changes say what they look for: "a run of operators that looks like this".

`operators`: what an operator is called and what it takes; `named`: what has a name; `flow`: what an operator takes from
the one before and gives to the next; `repeats`: equal stretches right after each other, and which of them count;
`items`: stretches that each have an item of a batch; `independent`, `small_products`: calls and products of which none
needs another.
"""
