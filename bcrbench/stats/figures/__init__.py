"""The paper's figures, and those that its tables ask for, drawn from run logs (Figure 2, App. C and H)."""
