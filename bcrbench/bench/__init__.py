"""Speed, measured beside what the arithmetic allows (paper Table 10, App. C and J)."""
