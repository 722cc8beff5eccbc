"""What runs in the sandbox's children: standard library only, and light, since every judgement starts two of them."""
