import sys
from dataclasses import replace
from tools.state_fuzz.sequence import sequence
from tools.state_fuzz.steps import perform
import torch, torch_atalla
torch_atalla.fallback.mode("error")
for n in map(int,sys.argv[1:2]):
    st=sequence(n)
    for k,s in enumerate(st):
        if len(sys.argv)>2 and str(k) not in sys.argv[2:]: continue
        print(k,s)
        print("   ->",list(perform(s)))
