"""timm's ResNet-50 in a loop of one's own, in fp32 and contiguous."""

import timm
import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def main():
    model = timm.create_model(sized("resnet50", "resnet10t"), num_classes=100).to(DEVICE)
    side = sized(224, 32)
    pictures = torch.randn(sized(64, 2), 3, side, side, device=DEVICE)
    kinds = torch.randint(0, 100, (sized(64, 2),), device=DEVICE)
    if FIXED:
        model = model.to(memory_format=torch.channels_last)
        pictures = pictures.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def step():
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=FIXED):
            loss = criterion(model(pictures), kinds)
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
