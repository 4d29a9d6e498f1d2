"""The language in which changes say what they look for: "a run of operators that looks like this".

`operators`: what an operator is called, what it takes and gives; `named`: what has a name;
`repeats`: equal stretches right after each other, and which of them count; `items`: stretches that
each have an item of a batch; `independent`, `small_products`: calls and products of which none
needs another."""
