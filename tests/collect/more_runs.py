"""More ways to start, stop and fork, for `test_matrix.py`: what programs do with copies, modes,
handlers, descriptors and their exit."""

from __future__ import annotations

MORE_RUNS = {
    "averages its model": """
from torch.optim.swa_utils import AveragedModel
train(12)
ema = AveragedModel(model)
for _ in range(40):
    train(1)
    ema.update_parameters(model)
print(int(ema.n_averaged))
""",
    "copies its optimizer": """
train(12)
for _ in range(20):
    train(1)
    copy.deepcopy(optimizer)
    pickle.dumps(optimizer)
print(len(optimizer._optimizer_step_post_hooks), sorted(k for k in vars(optimizer)))
""",
    "frees its model in the window": """
import gc, weakref
m = torch.nn.Sequential(torch.nn.Linear(8, 8))
o = torch.optim.SGD(m.parameters(), lr=0.1)
for _ in range(25):
    m(torch.ones(2, 8)).sum().backward()
    o.step()
a, b, c = weakref.ref(m), weakref.ref(o), weakref.ref(m[0].weight)
del m, o
gc.collect()
print(a(), b(), c())
train()
""",
    "uses dispatch modes": """
from torch.utils._python_dispatch import TorchDispatchMode
n = []
class D(TorchDispatchMode):
    def __torch_dispatch__(self, f, t, a=(), k=None):
        n.append(str(f))
        return f(*a, **(k or {}))
train(12)
with D(): train(10)
print(len(n), n[:6])
""",
    "uses function modes": """
from torch.overrides import TorchFunctionMode
n = []
class D(TorchFunctionMode):
    def __torch_function__(self, f, t, a=(), k=None):
        n.append(getattr(f, '__name__', ''))
        return f(*a, **(k or {}))
train(12)
with D(): train(10)
print(len(n), n[:6])
""",
    "has faulthandler hear SIGTERM": """
import faulthandler
f = open('trace.txt', 'w')
train(20)
faulthandler.register(signal.SIGTERM, file=f, chain=False)
train(60)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.2)
print('lives', os.path.getsize('trace.txt') > 0)
os.unlink('trace.txt')
""",
    "looks at all handlers": """
def handled():
    numbers = sorted(signal.valid_signals() - {signal.SIGURG})
    return [str(signal.getsignal(number))[:25] for number in numbers]
train(20)
print(handled(), signal.set_wakeup_fd(-1))
train(60)
print(handled(), signal.getsignal(signal.SIGURG))
""",
    "closes its loop": """
import asyncio
async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print, 'heard')
    train(20)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.sleep(0.1)
asyncio.run(main())
f = open('data', 'w+b')
signal.signal(signal.SIGUSR1, lambda *a: None)
os.kill(os.getpid(), signal.SIGUSR1)
train(60)
os.kill(os.getpid(), signal.SIGUSR1)
f.seek(0)
print(f.read())
os.unlink('data')
""",
    "has a thousand files": """
fs = [open('/dev/null') for _ in range(1200)]
train(40)
print(len(fs))
""",
    "may write little": """
import resource
train(5)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
train(70)
print(1)
""",
    "wants the signal of its limit on files": """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
train(12)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
train(60)
sys.exit(9)
""",
    "has no sys.stderr": """
sys.stderr = None
train(80)
print(1)
""",
    "trains in atexit": """
atexit.register(train, 30)
train(10)
print(1)
""",
    "replaces the capture by a file": """
import shutil
train(20)
shutil.rmtree('capture', ignore_errors=True)
open('capture', 'w').close()
train(60)
os.unlink('capture')
sys.exit(4)
""",
    "shards with fully_shard": """
import torch.distributed as d
from torch.distributed.fsdp import fully_shard
d.init_process_group('gloo', init_method='file://'+os.path.abspath('store'), rank=0, world_size=1)
mesh = d.device_mesh.init_device_mesh('cpu', (1,))
fully_shard(model, mesh=mesh)
o = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    model(torch.ones(2, 8)).sum().backward()
    o.step()
print(sorted(model.state_dict())[0], type(model).__name__, len(model._forward_pre_hooks))
d.destroy_process_group()
if os.path.exists('store'): os.unlink('store')
""",
    "recurses at the edge": """
n = 0
def deep():
    global n
    n += 1
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    deep()
try: deep()
except RecursionError: print('deep', n > 900)
train()
""",
}
