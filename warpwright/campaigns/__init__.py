"""Fault-injection campaigns: thousands of runs of one workload, each with one error, and how many of them are masked, wrong, ended or hung."""

from warpwright.campaigns.campaign import Campaign, campaign
from warpwright.campaigns.specification import CampaignError, CampaignSpecification

__all__ = ["Campaign", "CampaignError", "CampaignSpecification", "campaign"]
